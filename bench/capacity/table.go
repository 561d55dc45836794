package capacity

import (
	"fmt"
	"io"
)

// row compares what the models say of a load with what was measured.
type row struct {
	Point
	model, simulated Prediction
}

// compare has the models predict all points, with the cores that the measurement had.
func (m *Measured) compare() ([]row, error) {
	costs, err := m.fit()
	if err != nil {
		return nil, err
	}
	var rows []row
	for i := range m.Points {
		p := &m.Points[i]
		s := &System{Instances: 1, Shards: 1, Together: true}
		s.Speed, s.Cores = left(p, m.Machine.Cores)
		c := costs[p.Kind]
		rows = append(rows, row{*p, s.Closed(c, p.Load), s.SimulateClosed(c, p.Load)})
	}
	return rows, nil
}

// off is by how much a prediction is above what it predicts, in percent.
func off(predicted, is float64) float64 { return 100 * (predicted/is - 1) }

func writeRows(w io.Writer, rows []row) {
	fmt.Fprintln(w, "| in flight | µs: model | simulation | measured | error | swaps a round trip: model | simulation | measured | rate/s: model | simulation | measured | error |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for i := range rows {
		r := &rows[i]
		name := r.String()
		if calibrates(r.Load) {
			name += " (fitted)"
		}
		swaps := "– | – | –"
		if r.SwapsATrip > 0 {
			swaps = fmt.Sprintf("%.1f | %.1f | %.1f", r.model.SwapsATrip, r.simulated.SwapsATrip, r.SwapsATrip)
		}
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %.1f | %+.0f %% | %s | %.0f | %.0f | %.0f | %+.0f %% |\n", name,
			r.model.total(), r.simulated.total(), r.Total(), off(r.simulated.total(), r.Total()), swaps,
			r.model.Rate, r.simulated.Rate, r.Rate, off(r.simulated.Rate, r.Rate))
	}
}
