package setpoint

import "time"

// ReadTarget is readTarget.
var ReadTarget = readTarget

// SetRandom replaces what delays are drawn with.
func (c *Client) SetRandom(random func(most time.Duration) time.Duration) { c.retries.random = random }

// CopyFields is copyFields, for requests.
var CopyFields = copyFields
