// Package adjusted words the reason of a decision that stages or overrides took part in.
package adjusted

import (
	"fmt"
	"slices"
	"strings"
)

// most is how many messages of adjustments a reason has.
const most = 3

// Reason is the reason of a decision, and after it what stages and overrides say of it: the reason alone is that of
// the controller, which knows nothing of them. Of many messages it has the first ones, the last one, which is an
// override's if there is one, and how many it leaves out. Without any it is the reason.
func Reason(reason string, messages ...string) string {
	parts := append([]string{reason}, messages...)
	if n := len(messages) - most; n > 0 {
		parts = slices.Concat(parts[:most], []string{fmt.Sprintf("%d more by stages or overrides", n), messages[len(messages)-1]})
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.Join(slices.Compact(parts), "; ")
}

// Adjustment is the contract's: simulations, which import this, know no contract.
type Adjustment interface {
	GetStage() string
	GetRule() string
	GetMessage() string
}

// Tells reports whether an adjustment by these only tells, as a forecast does that is no floor: it is no reason of a count.
func Tells(stage, rule string) bool { return stage == "FORECAST" && rule != "floor" }

// Acting are the adjustments that do not only tell.
func Acting[A Adjustment](all []A) []A {
	return slices.DeleteFunc(slices.Clone(all), func(a A) bool { return Tells(a.GetStage(), a.GetRule()) })
}

// Messages are those of adjustments that do not only tell; of one without a message its stage and rule.
func Messages[A Adjustment](all []A) []string {
	messages := make([]string, 0, len(all))
	for _, a := range Acting(all) {
		message := a.GetMessage()
		if message == "" {
			message = strings.TrimSpace(a.GetStage() + " " + a.GetRule())
		}
		messages = append(messages, message)
	}
	return messages
}

// Without says what the count is without stages and overrides: that of one step, from the same history. The counts
// that they have decided before are in it.
func Without(replicas int32) string {
	return fmt.Sprintf("without stages and overrides, this step: %d", replicas)
}
