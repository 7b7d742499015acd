"""What Hydra needs from this project: its sweeper, its schemas and its users' config folder."""
