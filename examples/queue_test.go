package examples_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// The loop of the page about queues holds the count on any error: its workers end with it.
func TestTheLoopOfThePageOutlivesHalfAnAnswer(t *testing.T) {
	needs(t, installed("python3"), "python3", "apt-get install python3")
	_, program, _ := strings.Cut(testpages.Read(t, "../docs/start/queue.md"), "<!-- file: workers.py -->\n```python\n")
	program, _, _ = strings.Cut(program, "```")
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"desiredReplicas": 3`)
			}))
			t.Cleanup(server.Close)
			dir := t.TempDir()
			for name, content := range map[string]string{"workers.py": program, "spec.json": `{"maxReplicas": 3}`} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o755); err != nil {
				t.Fatal(err)
			}
			start(t, dir, "env", "SETPOINT_URL="+server.URL, "python3", "workers.py").await("the count stays: ")
		})
	}
}
