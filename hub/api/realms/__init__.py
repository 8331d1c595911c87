"""Realms in calls: which realm a call is for, and the questions that a call in one realm asks the others."""
