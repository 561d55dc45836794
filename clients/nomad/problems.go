package nomad

import (
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// problems collects all problems of a policy, each with its key.
type problems []string

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, key+": "+fmt.Sprintf(format, args...))
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return errors.New(strings.Join(p, "; "))
}

// unknown adds an unknown key.
func (p *problems) unknown(key, name string, known []string) {
	hint := "the keys are " + strings.Join(known, ", ")
	if closest, ok := spelling.Closest(name, known); ok {
		hint = "did you mean " + closest + "?"
	}
	p.add(key, "there is no such key; %s", hint)
}

// within joins the names of a part and of a key in it.
func within(part, name string) string { return part + "." + name }
