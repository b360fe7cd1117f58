"""Target `hosts`: systemd units on other machines."""
