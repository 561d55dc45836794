package validation

import "k8s.io/apimachinery/pkg/util/validation/field"

// checker collects the violations of a spec in the order of its methods, one per part
// of the spec.
type checker struct {
	errs field.ErrorList
}

// enum is a string that the Kubernetes API gives its own type. Error texts show such a
// value as JSON, a plain string in Go's quotes; the two escape differently.
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

// unsupported reports a value that is not one of the supported ones, which are sorted.
func (c *checker) unsupported(p *field.Path, value enum, supported []string) {
	c.errs = append(c.errs, field.NotSupported(p, value, supported))
}

// violations returns the violations; nil if there are none.
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
