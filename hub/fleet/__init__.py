"""What a machine lends, as a file says it: pools of slots, each kept alive by a driver."""
