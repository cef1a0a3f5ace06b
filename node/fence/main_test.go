package fence

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(pausedChild); how != "" {
		runPausedChild(how)
		return
	}
	// Keep the handler that logs, leave out the one that limits the rate of errors: it compares virtual time with the real
	// start of the process and would sleep for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	envtest.Main(m)
}
