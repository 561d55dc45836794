package serve

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestConnectionsLeaveDescriptorsToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked int
		limit uint64
		want  int
	}{
		"enough":          {4096, 1 << 20, 4096},
		"just enough":     {4096, 4096 + 256, 4096},
		"one too few":     {4096, 4096 + 255, 4095},
		"the usual limit": {4096, 1024, 768},
		"hardly any":      {4096, 100, 50},
		"none":            {4096, 0, 1},
		"no limit":        {4096, 1<<64 - 1, 4096},
	} {
		core, lines := observer.New(zap.WarnLevel)
		if got := withinDescriptors(c.asked, c.limit, zap.New(core)); got != c.want {
			t.Errorf("%s: %d connections, want %d", name, got, c.want)
		}
		if told := lines.Len() > 0; told != (c.want < c.asked) {
			t.Errorf("%s: warned: %v", name, told)
		}
	}
	if limit, known := descriptorLimit(); known && limit == 0 {
		t.Error("the process may have no files open")
	}
}
