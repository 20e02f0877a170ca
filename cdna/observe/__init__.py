"""What launches executed, in order: records, counters, modelled times; waves watched as they run."""
