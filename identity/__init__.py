"""Users, keys, sign-in: who is asking."""
