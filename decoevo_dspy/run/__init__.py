"""A run: its folder and its events, the workbench that calls the roles, the student, the session, the result."""
