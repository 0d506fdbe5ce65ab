"""The routes of the console: pages, their parts, actions."""
