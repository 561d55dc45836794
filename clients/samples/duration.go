package samples

import (
	"encoding/json"
	"time"
)

// Duration is a time.Duration that is written as in "15s".
type Duration time.Duration

// MarshalJSON writes the duration as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// String returns the duration as in "15s".
func (d Duration) String() string { return time.Duration(d).String() }
