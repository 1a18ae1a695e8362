"""Cron schedules; inert until schedules exist."""
