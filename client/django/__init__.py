"""The app for Django's INSTALLED_APPS: it has the migration of the transaction log's table."""
