package recommender

// asStored returns the input as seen by a controller that stores its objects as
// autoscaling/v1 (Profile.storedAsV1). That version has at most one target cpu
// utilization, which comes last when the object is read again: that of the first cpu
// metric, or none. An Object metric uses its average if it has one. The input is not
// changed. Upstream: the conversions in pkg/apis/autoscaling/v1 up to v1.19.
func (in *Input) asStored() *Input {
	stored := *in
	stored.Spec.Metrics = make([]MetricSpec, 0, len(in.Spec.Metrics))
	stored.Readings = make([]Readings, 0, len(in.Spec.Metrics))
	keep := func(m MetricSpec, i int) {
		var readings Readings
		if i < len(in.Readings) {
			readings = in.Readings[i]
		}
		stored.Spec.Metrics = append(stored.Spec.Metrics, m)
		stored.Readings = append(stored.Readings, readings)
	}
	cpu := -1
	for i, m := range in.Spec.Metrics {
		isCPU := m.Type == ResourceMetric && m.Resource == "cpu"
		if isCPU && cpu < 0 {
			cpu = i
		}
		if isCPU && m.Target.AverageUtilization != nil {
			continue
		}
		if m.Type == ObjectMetric {
			m.Target.Type = AverageValueTarget
			if m.Target.AverageValue == nil {
				m.Target.Type = ValueTarget
			}
			if m.Target.Value == nil {
				m.Target.Value = new(int64)
			}
		}
		keep(m, i)
	}
	if cpu >= 0 && in.Spec.Metrics[cpu].Target.AverageUtilization != nil {
		m := in.Spec.Metrics[cpu]
		m.Target.AverageValue = nil
		keep(m, cpu)
	}
	if len(stored.Spec.Metrics) == 0 {
		keep(DefaultMetrics()[0], len(in.Readings))
	}
	return &stored
}
