package conversion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/stages"
)

var methods = map[string]stages.Method{
	"": stages.Max, "MAX": stages.Max, "MIN": stages.Min, "QUORUM": stages.Quorum, "WEIGHTED": stages.Weighted, "SUM": stages.Sum,
}

// combine reads how proposals become one.
func (r *stagesReader) combine(c *setpointv1.Combine, p *stages.Plan) {
	if c == nil {
		return
	}
	method, ok := methods[c.GetMethod()]
	if !ok {
		return // validation.Structure tells
	}
	out := &stages.Combine{Method: method}
	quorum, field := c.GetQuorum(), "stages.combine.quorum"
	switch {
	case method != stages.Quorum && quorum != 0:
		r.refuse(field, "Forbidden: only the method QUORUM has one")
	case method == stages.Quorum && quorum == 0:
		r.refuse(field, "Required value: the method QUORUM needs the number of metrics that must want as much, 1 to %d", len(p.Metrics))
	case method == stages.Quorum && int(quorum) > len(p.Metrics):
		r.refuse(field, "Invalid value: %d: must be between 1 and %d, the number of metrics", quorum, len(p.Metrics))
	}
	out.Quorum = int(quorum)
	switch {
	case method == stages.Weighted:
		out.Weights = r.weights(c.GetWeights(), p)
	case len(c.GetWeights()) > 0:
		r.refuse(weightsField, "Forbidden: only the method WEIGHTED has weights")
	}
	p.Combine = out
}

const weightsField = "stages.combine.weights"

func (r *stagesReader) weights(in map[string]string, p *stages.Plan) []int64 {
	weights := make([]int64, len(p.Metrics))
	weighed := make([]bool, len(p.Metrics))
	var sum int64
	bad := false
	for _, name := range pairs(in) {
		field := fmt.Sprintf("%s[%q]", weightsField, clip(name))
		index := r.metric(p, name, field)
		weight, ok := weightOf(in[name])
		if !ok {
			r.refuse(field, "Invalid value: %q: must be a decimal number of at least 0 and below 10000000 with at most %d decimals, such as \"0.5\"", clip(in[name]), weightDecimals)
		}
		if bad = bad || !ok || index < 0; index >= 0 {
			weights[index], weighed[index] = weight, true
			sum += weight
		}
	}
	if missing := slices.Index(weighed, false); missing >= 0 {
		r.refuse(weightsField, "Required value: the method WEIGHTED needs a weight for each metric: %s has none", clip(p.Metrics[missing]))
	} else if sum == 0 && !bad {
		r.refuse(weightsField, "Invalid value: the sum of the weights must be greater than 0")
	}
	return weights
}

// A weight has at most this many digits before and after the point, so that 64 of them fit in an int64.
const weightDigits, weightDecimals = 7, 9

// weightOf reads a weight in units of 10^-9.
func weightOf(text string) (weight int64, ok bool) {
	whole, decimals, point := strings.Cut(text, ".")
	if len(whole) == 0 || len(whole) > weightDigits || len(decimals) > weightDecimals || point && len(decimals) == 0 {
		return 0, false
	}
	for _, b := range []byte(whole + decimals) {
		if b < '0' || b > '9' {
			return 0, false
		}
	}
	weight, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", weightDecimals-len(decimals)), 10, 64)
	return weight, err == nil
}

// usualHold is how long scale-downs are held after too many turns.
const usualHold = 10 * time.Minute

// reversals reads a budget, whose ranges validation.Structure checks.
func (r *stagesReader) reversals(b *setpointv1.ReversalBudget, p *stages.Plan) {
	if b == nil {
		return
	}
	p.Reversals = &stages.Reversals{Count: int(b.GetCount()), Period: b.GetPeriod().AsDuration(), Hold: usualHold}
	if b.GetHold() != nil {
		p.Reversals.Hold = b.GetHold().AsDuration()
	}
}
