package setpoint

import "time"

// ReadTarget is readTarget.
var ReadTarget = readTarget

// SetRandom replaces the random source of delays.
func (c *Client) SetRandom(random func(most time.Duration) time.Duration) { c.retries.random = random }

// CopyFields is copyFields, for requests.
var CopyFields = copyFields
