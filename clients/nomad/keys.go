package nomad

// PolicyKey describes a key of a policy.
type PolicyKey struct {
	// Name is the key, with NAME and KEY as placeholders.
	Name string
	// Value describes the values.
	Value string
	// Default applies without the key; empty: there is none.
	Default string
	// Meaning is a sentence.
	Meaning string
}

// Keys returns all keys for Setpoint in a scaling block: its own keys, and those under Key.
func Keys() []PolicyKey {
	return []PolicyKey{
		{"scaling.enabled", "`true` or `false`", "`true`", "`false` leaves the group alone."},
		{"scaling.min", "allocations, from 0", "the group's `count`", "Lower bound. 0 needs a `metric` that is known without allocations."},
		{"scaling.max", "allocations", "", "Upper bound. Nomad requires it."},
		{Key + ".cpu", "percent", "", "Target of the CPU usage of all allocations, percent of `resources.cpu` of their tasks, in MHz."},
		{Key + ".memory", "percent", "", "The same for memory, percent of `resources.memory`."},
		{Key + ".metrics", "blocks or a list", "", "Metrics of type `Resource` or `ContainerResource` as `metrics` of `autoscaling/v2` has them; a container is a task. cpu is in MHz, memory in bytes."},
		{Key + ".metric \"NAME\" KEY", "text", "", "Where the metric NAME comes from: `source`, the name of a source of the agent, and what is asked there, such as `query` for a Prometheus."},
		{Key + ".metric \"NAME\" " + averageKey, "quantity", "", "Target of that metric: its sum for each allocation; with `podLabel` or `podPath`, whose values are ids of allocations, their average."},
		{Key + ".metric \"NAME\" " + valueKey, "quantity", "", "In place of `" + averageKey + "`: the sum as it is, however many allocations there are."},
		{Key + ".behavior", "block", "that of the HorizontalPodAutoscaler", "Windows and policies, as `behavior` of `autoscaling/v2`."},
		{Key + ".period", "duration, `\"1s\"` to `\"1h\"`", "that of the agent, `15s`", "Time between two decisions."},
		{Key + ".shadow", "`true` or `false`", "`false`", "Decide, and write events without a count in place of counts."},
	}
}
