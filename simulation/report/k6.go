package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/simulation"
)

// MaxStages bounds the stages of a script of k6, which reads all of them before it begins.
const MaxStages = 20_000

// stage is a line of the load: so long, to so many units a minute. A stage of no time is a jump.
type stage struct {
	length time.Duration
	rate   int64
}

// perMinute is a load as k6 has it: whole numbers in a time unit, and a sixtieth of a unit a
// second is fine enough.
func perMinute(load float64) int64 { return int64(math.Round(load * 60)) }

// stages are the load of a scenario, from its rate at the start on.
func stages(s *simulation.Scenario) (start int64, out []stage, err error) {
	start = perMinute(s.Load.At(0))
	at, rate := time.Duration(0), start
	add := func(until time.Duration, load float64) {
		to := perMinute(load)
		if until > at || to != rate {
			out = append(out, stage{until - at, to})
		}
		at, rate = until, to
	}
	for _, p := range s.Load.Points() {
		if p.At > 0 && p.At <= s.Duration && (at < s.Duration) {
			add(p.At, p.Value)
		}
		if len(out) > MaxStages {
			return 0, nil, fmt.Errorf("the load has more than %d stages: shorten the scenario, or leave out noise", MaxStages)
		}
	}
	if at < s.Duration {
		add(s.Duration, s.Load.At(s.Duration))
	}
	return start, out, nil
}

// WriteK6 writes the load of a scenario as a script of k6: iterations that start at the rate of
// the load, whatever the answers take. The error says that there are too many stages.
func WriteK6(w io.Writer, name string, s *simulation.Scenario) error {
	start, stages, err := stages(s)
	if err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintf(&out, `// The load of %s, %s, seed %d: setpoint simulate --export k6.
//
//   k6 run -e URL=https://shop.example/ SCRIPT
//
// VUS is how many requests may be under way (1000). A unit of the load is one iteration.
import http from 'k6/http';

export const options = {
  discardResponseBodies: true,
  scenarios: {
    load: {
      executor: 'ramping-arrival-rate',
      timeUnit: '1m',
      startRate: %d,
      preAllocatedVUs: 10,
      maxVUs: Number(__ENV.VUS || 1000),
      stages: [
`, printable.Text(name), Span(s.Duration), s.Seed, start)
	for _, stage := range stages {
		fmt.Fprintf(&out, "        { duration: '%s', target: %d },\n", stage.length, stage.rate)
	}
	out.WriteString(`      ],
    },
  },
};

export default function () {
  http.get(__ENV.URL);
}
`)
	_, err = io.WriteString(w, out.String())
	return err
}
