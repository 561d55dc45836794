package validation

import "k8s.io/apimachinery/pkg/util/validation/field"

// checker gathers the violations of a spec in the order in which its methods,
// one a part of the spec, come upon them.
type checker struct {
	errs field.ErrorList
}

// enum is a string that the Kubernetes API gives a type of its own. Error texts
// show such a value as JSON, a plain string in Go's quotes; the two differ in
// how they escape.
type enum string

func (c *checker) required(p *field.Path, detail string) {
	c.errs = append(c.errs, field.Required(p, detail))
}

func (c *checker) invalid(p *field.Path, value any, detail string) {
	c.errs = append(c.errs, field.Invalid(p, value, detail))
}

func (c *checker) forbidden(p *field.Path, detail string) {
	c.errs = append(c.errs, field.Forbidden(p, detail))
}

// unsupported reports a value that is not among the supported ones, which are sorted.
func (c *checker) unsupported(p *field.Path, value enum, supported []string) {
	c.errs = append(c.errs, field.NotSupported(p, value, supported))
}

// violations returns what was found; nil when there is nothing.
func (c *checker) violations() []Violation {
	if len(c.errs) == 0 {
		return nil
	}
	listed := c.errs[:min(len(c.errs), MostViolations)]
	violations := make([]Violation, len(listed))
	for i, err := range listed {
		violations[i] = Violation{Field: err.Field, Description: err.ErrorBody()}
	}
	if len(listed) < len(c.errs) {
		violations = append(violations, More)
	}
	return violations
}
