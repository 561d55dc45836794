package main

import "strings"

// quantityRules are those for a quantity: that it is one, and a rule about it, in which
// self is the quantity.
func quantityRules(cel, message string) []rule {
	// Numbers are quantities, too. Spaces around one are read; other white space, which JSON
	// escapes, keeps the Go type from reading it.
	const (
		text = "string(self).trim()"
		good = "string(self).matches('^ *[^[:space:]]* *$') && isQuantity(" + text + ")"
	)
	return []rule{
		{
			cel:     good,
			message: "must be a quantity: a decimal number, or one with a suffix, such as 500m, 1.5, 2Gi or 1e3",
		},
		{
			cel:     "!isQuantity(" + text + ") || " + strings.ReplaceAll(cel, "self", "quantity("+text+")"),
			message: message,
		},
	}
}
