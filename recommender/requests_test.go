package recommender

import "testing"

// Requests of pods, beside the worked examples.
func TestRequestsOfPods(t *testing.T) {
	request := func(resource string, milli int64) []ResourceRequest {
		return []ResourceRequest{{resource, milliQuantity(milli)}}
	}
	cpu := func(milli int64) []ResourceRequest { return request("cpu", milli) }
	memory := request("memory", mebi)
	initial := func(name string, milli int64) InitContainer { return InitContainer{Container{name, cpu(milli)}, false} }
	sidecar := func(name string, milli int64) InitContainer { return InitContainer{Container{name, cpu(milli)}, true} }
	for _, tt := range []struct {
		name      string
		pod       Pod
		container string
		want      int64
		problem   string
	}{
		{name: "a request of 0 is one", pod: Pod{Containers: []Container{{"a", cpu(0)}, {"b", cpu(5)}}}, want: 5},
		{name: "no containers request nothing", pod: Pod{}, want: 0},
		{
			name: "the first container without one is named", pod: Pod{Containers: []Container{{"a", cpu(1)}, {"b", nil}, {"c", nil}}},
			problem: "missing request for cpu in container b of Pod web-0",
		},
		{
			name:    "a sidecar must have one",
			pod:     Pod{Containers: []Container{{"a", cpu(1)}}, InitContainers: []InitContainer{{Container{"side", memory}, true}}},
			problem: "missing request for cpu in container side of Pod web-0",
		},
		{
			name: "an init container need not",
			pod:  Pod{Containers: []Container{{"a", cpu(1)}}, InitContainers: []InitContainer{{Container{"init", nil}, false}}}, want: 1,
		},
		{name: "a named container", container: "b", pod: Pod{Containers: []Container{{"a", nil}, {"b", cpu(7)}}}, want: 7},
		{name: "a named sidecar", container: "s", pod: Pod{Containers: []Container{{"a", nil}}, InitContainers: []InitContainer{sidecar("s", 9)}}, want: 9},
		{
			name: "a named init container is not found", container: "i", pod: Pod{InitContainers: []InitContainer{initial("i", 9)}},
			problem: "container i not found in Pod web-0",
		},
		{
			name: "a named container without request", container: "a", pod: Pod{Containers: []Container{{"a", memory}}},
			problem: "missing request for cpu in container a of Pod web-0",
		},
		{
			name: "a named container wins over the pod's level", container: "a",
			pod: Pod{Containers: []Container{{"a", cpu(7)}}, PodLevelRequests: cpu(500), Overhead: cpu(50)}, want: 7,
		},
		{
			name: "a resource that the pod's level does not know does not lead there",
			pod:  Pod{Containers: []Container{{"a", cpu(7)}}, PodLevelRequests: request("example.com/gpu", 1000), Overhead: cpu(50)}, want: 7,
		},
		{
			name: "huge pages do", pod: Pod{Containers: []Container{{"a", cpu(7)}}, PodLevelRequests: request("hugepages-2Mi", 1000), Overhead: cpu(50)},
			want: 57,
		},
		{name: "an empty list at the pod's level does not", pod: Pod{Containers: []Container{{"a", cpu(7)}}, PodLevelRequests: []ResourceRequest{}}, want: 7},
		{
			name: "an init container counts with the sidecars before it",
			pod: Pod{
				Containers:       []Container{{"a", cpu(100)}},
				InitContainers:   []InitContainer{sidecar("s", 30), initial("i", 90), sidecar("t", 40)},
				PodLevelRequests: memory,
			},
			want: 170, // 100+30+40, above 30+90
		},
		{
			name: "the largest init container may be the most",
			pod: Pod{
				Containers:       []Container{{"a", cpu(100)}},
				InitContainers:   []InitContainer{initial("h", 10), sidecar("s", 30), initial("i", 190), sidecar("t", 40)},
				PodLevelRequests: memory,
			},
			want: 220,
		},
		{
			name: "a smaller init container may be more with the sidecars before it",
			pod: Pod{
				Containers:       []Container{{"a", cpu(10)}},
				InitContainers:   []InitContainer{initial("h", 100), sidecar("s", 50), initial("i", 80)},
				PodLevelRequests: memory,
			},
			want: 130,
		},
		{
			name: "a container without the resource adds nothing at the pod's level",
			pod:  Pod{Containers: []Container{{"a", cpu(7)}, {"b", nil}}, PodLevelRequests: memory}, want: 7,
		},
		{name: "overhead alone is a request at the pod's level", pod: Pod{Containers: []Container{{"a", nil}}, PodLevelRequests: memory, Overhead: cpu(50)}, want: 50},
		{
			name: "none at all is none", pod: Pod{Containers: []Container{{"a", nil}}, PodLevelRequests: memory},
			problem: "missing pod-level request for cpu in Pod web-0",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.pod.Name = "web-0"
			got, problem := podRequest(&tt.pod, tt.container, "cpu")
			if problem != tt.problem || problem == "" && got != tt.want {
				t.Errorf("%d milli, %q; want %d, %q", got, problem, tt.want, tt.problem)
			}
		})
	}
}
