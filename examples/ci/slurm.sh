#!/bin/bash
#SBATCH --job-name=kvgold --array=1-16 --cpus-per-task=1 --time=01:00:00 --requeue
# usage: sbatch slurm.sh CONFIG BACKEND
#
# One share of a config in each task of the array. A task that begins again writes its folder anew.
export OMP_WAIT_POLICY=passive
exec kvgold check "$1" --backend "$2" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --jobs 1 --no-html \
    -o "shard-$SLURM_ARRAY_TASK_ID"
