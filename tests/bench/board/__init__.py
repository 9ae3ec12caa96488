"""The leaderboard: families of models on recommendation sets, their searches, figures, page and picture."""
