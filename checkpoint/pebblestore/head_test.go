package pebblestore

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// TestHeadAge takes the power away around every write of HEAD: it names the newest
// sync once the disk was left alone, one that is headDelay old under whatever load,
// and never one that was not.
func TestHeadAge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1))
			mem := vfs.NewCrashableMem()
			if err := makeDir(mem, "s"); err != nil {
				t.Fatal(err)
			}
			if err := createHead(mem, "s", 0); err != nil {
				t.Fatal(err)
			}
			w, err := startHead(mem, "s", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			var put []time.Time // by Seq
			for seq := range checkpoint.Seq(200) {
				put = append(put, time.Now())
				w.put(seq)
				busy := seed%2 == 0
				if busy {
					w.syncing()
				}
				pauses := []time.Duration{100 * time.Microsecond, 900 * time.Microsecond, headQuiet, 3 * time.Millisecond, 2 * headDelay}
				pause := pauses[dice.IntN(len(pauses))]
				time.Sleep(pause)
				synctest.Wait()
				head, there, err := readHead(mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[dice.IntN(3)], RNG: dice}), "s/"+headFile)
				if err != nil || !there || head > seq {
					t.Fatalf("seed %d: HEAD = %d, %v, %v after %d", seed, head, there, err, seq)
				}
				if !busy && pause >= headQuiet && head != seq {
					t.Fatalf("seed %d: the disk had rest, HEAD = %d after %d", seed, head, seq)
				}
				if head < seq && time.Since(put[head+1]) > headDelay {
					t.Fatalf("seed %d: HEAD = %d, and %d was known for %s", seed, head, head+1, time.Since(put[head+1]))
				}
			}
		})
	}
}

// TestHeadSeesALostLog: after a power cut a store whose newest log is gone is found to
// have lost what was persisted, though Pebble opens it without a word.
func TestHeadSeesALostLog(t *testing.T) {
	t.Parallel()
	mem, w := vfs.NewCrashableMem(), newWorkload(t, 2)
	s, err := w.open(crashable{mem})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	last := checkpoint.Seq(0)
	for range 20 {
		if last, err = s.Commit(t.Context(), w.batch(t, last+1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	disk := mem.CrashClone(vfs.CrashCloneCfg{})
	for head, _, err := readHead(disk, crashDir+"/"+headFile); head < last; head, _, err = readHead(disk, crashDir+"/"+headFile) {
		if err != nil {
			t.Fatal(err)
		}
		disk = mem.CrashClone(vfs.CrashCloneCfg{}) // HEAD is on its way
	}
	names, err := disk.List(crashDir + "/" + dbDir)
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for _, name := range names {
		if len(name) > 4 && name[len(name)-4:] == ".log" && name > newest {
			newest = name
		}
	}
	if err := disk.Remove(crashDir + "/" + dbDir + "/" + newest); err != nil {
		t.Fatal(err)
	}
	behind, err := w.open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	if behind.Behind() != last {
		t.Errorf("behind %d, want %d", behind.Behind(), last)
	}
}
