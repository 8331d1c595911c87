"""The event history: reading and following the events of the store, and the explanations of `hub why`."""
