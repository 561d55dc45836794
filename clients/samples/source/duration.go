package source

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// Duration is a time.Duration that is written as in "15s".
type Duration time.Duration

// MarshalJSON writes the duration as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalText reads a text such as "15s".
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("must be a duration such as 15s or 1m30s" + document.WithUnit(string(text)))
	}
	*d = Duration(parsed)
	return nil
}

// String returns the duration as in "15s".
func (d Duration) String() string { return time.Duration(d).String() }
