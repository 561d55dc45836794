package validation

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// quantity parses a quantity, or reports that it can't.
func (c *checker) quantity(p *field.Path, text string) (q resource.Quantity, ok bool) {
	q, err := quantity.ParseLibrary(text)
	switch {
	case errors.Is(err, quantity.ErrLength):
		c.errs = append(c.errs, field.TooLong(p, text, quantity.MaxLength))
	case err != nil:
		c.invalid(p, text, err.Error())
	}
	return q, err == nil
}

func (c *checker) positive(p *field.Path, text string) {
	if q, ok := c.quantity(p, text); ok && q.Sign() <= 0 {
		c.invalid(p, &q, "must be positive")
	}
}

func (c *checker) notNegative(p *field.Path, text string) {
	if q, ok := c.quantity(p, text); ok && q.Sign() < 0 {
		c.invalid(p, q.String(), "must be greater than or equal to 0")
	}
}
