"""Configuration: Hydra groups in YAML, their types in `conf.schema`, their rules in `conf.rules`."""
