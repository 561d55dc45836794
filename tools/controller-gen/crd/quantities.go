package main

import "strings"

// quantityRules are the rules for a quantity: that it is valid, and a rule in which
// self is the quantity.
func quantityRules(cel, message string) []rule {
	// Numbers are quantities, too. Surrounding spaces are allowed; the Go type can't parse
	// other white space, which JSON escapes.
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
