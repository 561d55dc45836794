package main

// Parts of regular expressions.
const (
	dnsLabel     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	dnsSubdomain = dnsLabel + `([.]` + dnsLabel + `)*`
)

// resourceNameRules are the rules for the name of a container's resource: cpu, memory,
// ephemeral-storage, hugepages-*, or one with a domain.
func resourceNameRules() []rule {
	return []rule{
		nonEmpty("must specify a resource name"),
		{
			cel: "self == '' || (self.matches('^(" + dnsSubdomain + "/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$') && " +
				"self.indexOf('/') <= 253 && self.size() - self.indexOf('/') - 1 <= 63)",
			message: "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
				"alphanumeric character, at most 63 characters, with an optional DNS subdomain prefix and '/'",
		},
		{
			cel: "self == '' || self.contains('/') || self in ['cpu', 'memory', 'ephemeral-storage'] || " +
				"self.startsWith('hugepages-')",
			message: "must be a standard resource for containers",
		},
		{
			// A quota puts "requests." before the name, and the result must not exceed 253
			// characters.
			cel: "!self.contains('/') || self.contains('kubernetes.io/') || " +
				"(!self.startsWith('requests.') && self.indexOf('/') <= 244)",
			message: "doesn't follow extended resource name standard",
		},
	}
}
