//! Rules that hold across the workspace; each is a test in `tests/`.
