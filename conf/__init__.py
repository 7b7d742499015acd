"""Configuration: Hydra groups in YAML, types in `conf.schema`, rules in `conf.rules`."""
