package cli

import (
	"fmt"
	"time"
)

// Age is how long ago something was, in a table: 40s, 3m, 5h, 9d.
func Age(age time.Duration) string {
	switch age = max(0, age); {
	case age < 2*time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh", int(age.Hours()))
	}
	return fmt.Sprintf("%dd", int(age.Hours()/24))
}
