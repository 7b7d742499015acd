"""Hydra's part of this tool: composing configurations, and the user's config folder.

Hydra imports each module here whose name has no leading underscore, and imports it a second time
if it was imported before. So `plugins` holds only the plugins that Hydra must find.
"""
