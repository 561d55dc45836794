package crd_test

import "testing"

func TestTheAPIServerAcceptsTheDefinition(t *testing.T) {
	t.Parallel()
	definition(t) // its schema, its rules, and what they may cost
}
