package v1

import "k8s.io/apimachinery/pkg/util/json"

// UnmarshalJSON reads a spec. A spec that was stored under a laxer schema may be unreadable; to
// keep the rest of a list readable, that is no error here: Unreadable says what is wrong, and
// all else is empty. The fallback of an external metric, for which autoscaling/v2 has no place, becomes one
// of Stages.
func (s *AutoscalerSpec) UnmarshalJSON(data []byte) error {
	type plain AutoscalerSpec
	var read plain
	err := json.Unmarshal(data, &read)
	if *s = AutoscalerSpec(read); err == nil {
		err = s.addFallbacks(data)
	}
	if err != nil {
		*s = AutoscalerSpec{Unreadable: err.Error()}
	}
	return nil
}

// UnmarshalJSON reads a status. It treats an unreadable one as empty: the agent writes it anew.
func (s *AutoscalerStatus) UnmarshalJSON(data []byte) error {
	type plain AutoscalerStatus
	var read plain
	if err := json.Unmarshal(data, &read); err != nil {
		read = plain{}
	}
	*s = AutoscalerStatus(read)
	return nil
}
