"""The outage drill: a whole fleet, its borrowers and real hubs, while hubs, Redis and the way between them fail."""
