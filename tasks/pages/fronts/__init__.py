"""The front of each kind of page: its title, verdict, headline and facts."""
