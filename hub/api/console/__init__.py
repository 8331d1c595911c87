"""The routes that only the console uses: its files, logins, and lists."""
