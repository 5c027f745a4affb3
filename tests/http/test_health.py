"""Health, readiness with reasons, and metrics."""

import asyncio
import shutil
from pathlib import Path

import pytest
from litestar.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.http.calls import ask, assert_problem, document, part, put_vocabulary, read, store
from tests.http.conftest import Client, SteadyClient, connected
from tests.postgres import PostgresServer


def samples(page: str) -> dict[str, float]:
    """Every sample of a metrics page, as `name{label=value,…}`."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_live(steady: SteadyClient) -> None:
    """U19: a process that answers is alive."""
    assert read(steady.get("/health/live")) == {"state": "alive"}


def test_ready(steady: SteadyClient) -> None:
    """U19: readiness names each part with its state and, where it is not the best one, the reason."""
    assert read(steady.get("/health/ready")) == {
        "ready": True,
        "parts": {
            "store": {"state": "ready", "reason": None},
            "lexical": {"state": "ready", "reason": None},
            "vectors": {"state": "off", "reason": None},
        },
    }


@pytest.mark.anyio
async def test_metrics(http: Client) -> None:
    """U19: requests by route and status, latencies, reads by source, and the state of the index are exported."""
    await store(http, document("a", "sill", "jamb"))
    await ask(http, "sill")
    await http.get("/v1/items/nobody")
    await http.get("/v1/nothing/at/all")
    page = await http.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=")
    found = samples(page.text)
    expected = {
        "citewell_http_requests_total{method=POST,route=/v1/items,status=201}": 1.0,
        "citewell_http_requests_total{method=GET,route=/v1/items/{item_id},status=404}": 1.0,
        "citewell_http_requests_total{method=GET,route=unmatched,status=404}": 1.0,
        "citewell_http_request_seconds_count{route=/v1/retrieve}": 1.0,
        "citewell_lexical_reads_total{source=index}": 1.0,
        "citewell_vector_reads_total{reason=off,state=off}": 1.0,
        "citewell_index_documents{workspace=default}": 2.0,
        "citewell_index_lag_changes{workspace=default}": 0.0,
        "citewell_index_rebuilds_total{workspace=default}": 1.0,
    }
    assert {name: found.get(name) for name in expected} == expected


def test_each_application_counts_for_itself(tmp_path: Path) -> None:
    """Two applications in one process do not share a registry."""
    for name in ("one", "two"):
        with TestClient(create_app(Settings(data_dir=tmp_path / name))) as client:
            client.get("/health/live")
            found = samples(client.get("/metrics").text)
            assert found["citewell_http_requests_total{method=GET,route=/health/live,status=200}"] == 1.0


@pytest.mark.anyio
async def test_a_lost_index_is_read_around(sqlite_settings: Settings) -> None:
    """U19: without its index a small corpus is answered from the rows, which readiness and `arms` say."""
    async with connected(sqlite_settings) as client:
        await store(client, document("a", "sill"))
        before = await ask(client, "sill")
        lose_index(client, sqlite_settings.data_dir)
        body = await ask(client, "sill")
        assert part(body, "arms", "lexical") == {"state": "ran", "source": "scan"}
        assert body["results"] == before["results"]
        ready = await client.get("/health/ready")
        assert ready.status_code == 200
        assert part(read(ready), "parts", "lexical")["state"] == "scanning"
        assert (
            samples((await client.get("/metrics")).text)["citewell_lexical_reads_total{source=scan}"] == 1.0
        )


@pytest.mark.anyio
async def test_a_lost_index_of_a_large_corpus(sqlite_settings: Settings) -> None:
    """U19: where the rows are too many, reads are 503 with Retry-After and readiness says why, without a path."""
    async with connected(sqlite_settings.model_copy(update={"scan_bound": 0})) as client:
        await store(client, document("a", "sill"))
        lose_index(client, sqlite_settings.data_dir)
        answer = await client.post("/v1/retrieve", json={"query": "sill"})
        assert_problem(answer, 503, "lexical_index_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.headers["content-type"]) == (503, "application/problem+json")
        body = read(ready)
        assert (body["ready"], body["status"]) == (False, 503)
        assert part(body, "parts", "store") == {"state": "ready", "reason": None}
        assert part(body, "parts", "lexical")["state"] == "unavailable"
        assert str(sqlite_settings.data_dir) not in ready.text + answer.text
        assert (await client.get("/health/live")).status_code == 200


@pytest.mark.anyio
async def test_a_lost_database(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """U19: without its database the service is 503 and says so, and it recovers by itself."""
    with postgres_server.database() as url:
        async with connected(Settings(data_dir=tmp_path, database_url=url)) as client:
            await put_vocabulary(client)
            await store(client, document("a", "SL45 sill"))
            lose_database(postgres_server, url)
            ready = await client.get("/health/ready")
            assert ready.status_code == 503
            assert part(read(ready), "parts", "store")["reason"] == "the store does not answer"
            answer = await client.get("/v1/systems/sl45/passages")
            assert_problem(answer, 503, "store_unavailable")
            assert answer.headers["retry-after"] == "1"
            assert_problem(
                await client.post("/v1/items", json=document("b", "sill")), 503, "store_unavailable"
            )
            assert (await client.get("/metrics")).status_code == 200
            postgres_server.sql(f'ALTER DATABASE "{name_of(url)}" ALLOW_CONNECTIONS true')
            await until_ready(client)
            assert read(await client.get("/v1/systems/sl45/passages"))["shown"] == 1


@pytest.mark.anyio
async def test_a_query_without_a_database(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """U19: a free-text retrieval without the database is 503, never 500."""
    with postgres_server.database() as url:
        async with connected(Settings(data_dir=tmp_path, database_url=url)) as client:
            await store(client, document("a", "sill"))
            lose_database(postgres_server, url)
            for _ in range(3):
                answer = await client.post("/v1/retrieve", json={"query": "sill"})
                assert_problem(answer, 503, "store_unavailable")


@pytest.mark.anyio
async def test_health_answers_while_the_service_works(http: Client) -> None:
    """U20: health answers between the requests that are being worked on."""
    bodies = [document(f"d{number}", "sill " * 500) for number in range(20)]
    work = [asyncio.ensure_future(http.post("/v1/items", json=body)) for body in bodies]
    assert (await http.get("/health/live")).status_code == 200
    await asyncio.gather(*work)


async def until_ready(client: Client) -> None:
    """Wait until the service says that it can answer: what it said before counts for a moment."""
    async with asyncio.timeout(30.0):
        while (await client.get("/health/ready")).status_code != 200:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)


def lose_index(client: Client, data_dir: Path) -> None:
    """Take the index away from a running application, in such a way that it cannot be built again."""
    shutil.rmtree(data_dir / "lexical")
    (data_dir / "lexical").write_text("in the way")
    shard = client.app.state.application.lexical._shards[DEFAULT_WORKSPACE]
    client.blocking_portal.call(shard.damaged, shard._current, f"damaged: {data_dir}")


def name_of(url: str) -> str:
    """The database that a URL names."""
    return make_url(url).database or ""


def lose_database(server: PostgresServer, url: str) -> None:
    """Take the database away: nobody can connect, and everybody is cut off."""
    server.sql(f'ALTER DATABASE "{name_of(url)}" ALLOW_CONNECTIONS false')
    everybody = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    server.sql(f"{everybody} AND datname = '{name_of(url)}'")
