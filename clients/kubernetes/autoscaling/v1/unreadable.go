package v1

import "k8s.io/apimachinery/pkg/util/json"

// UnmarshalJSON reads a spec. One that was stored with a laxer schema may not be
// readable; it must not keep others of a list from being read, so that it is no error
// here: Unreadable says what is wrong, and the rest is empty.
func (s *AutoscalerSpec) UnmarshalJSON(data []byte) error {
	type plain AutoscalerSpec
	var read plain
	if err := json.Unmarshal(data, &read); err != nil {
		*s = AutoscalerSpec{Unreadable: err.Error()}
		return nil
	}
	*s = AutoscalerSpec(read)
	return nil
}

// UnmarshalJSON reads a status. One that is not readable is taken for none: the agent
// writes it anew.
func (s *AutoscalerStatus) UnmarshalJSON(data []byte) error {
	type plain AutoscalerStatus
	var read plain
	if err := json.Unmarshal(data, &read); err != nil {
		read = plain{}
	}
	*s = AutoscalerStatus(read)
	return nil
}
