package swarm

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/clients/samples"
)

// cadvisorTask is the label by which cAdvisor's series name the task of a container, and
// cadvisorService the one for its service.
const (
	cadvisorTask    = "container_label_com_docker_swarm_task_id"
	cadvisorService = "container_label_com_docker_swarm_service_id"
)

// Cadvisor returns usage from a Prometheus that scrapes cAdvisor on each node: cpu is a rate
// over the window, memory the working set, as in Kubernetes. The window must cover at least two
// scrapes: a task with fewer has no sample.
func Cadvisor(source string, window time.Duration) Usage {
	return func(resource, serviceID string) samples.Query {
		of := fmt.Sprintf("{%s=%q}", cadvisorService, serviceID)
		q := samples.Query{Source: source, PodLabel: cadvisorTask}
		switch resource {
		case "cpu":
			q.Window = samples.Duration(window)
			q.Query = fmt.Sprintf("sum by (%s) (rate(container_cpu_usage_seconds_total%s[%dms]))", cadvisorTask, of, window.Milliseconds())
		case "memory":
			q.Query = fmt.Sprintf("sum by (%s) (container_memory_working_set_bytes%s)", cadvisorTask, of)
		}
		return q
	}
}
