package quantity_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/quantity"
)

func TestTextsThatWouldTakeMinutesAreRefused(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"100m": true, "1Ei": true, "1E": true, "1e3": true, "2E6": true, "1e64": true, "-5": true,
		"1e-999999999": false, "12345678901234567890e999999999": false, "1e99999999999999999999": false,
		"1e65": false, "": false, "many": false, strings.Repeat("1", 65): false,
	} {
		if _, err := quantity.Parse(text); (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
