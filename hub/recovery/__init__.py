"""Recovery: the search for stuck records of other systems, source by source, and their reset."""
