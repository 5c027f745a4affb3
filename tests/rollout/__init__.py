"""The rollout flag, shadow mode and drills."""
