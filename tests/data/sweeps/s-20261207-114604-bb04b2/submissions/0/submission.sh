#!/bin/bash

# Parameters
#SBATCH --array=0-4%5
#SBATCH --chdir=/home/user/runs/s-20261207-114604-bb04b2
#SBATCH --comment=s-20261207-114604-bb04b2.0
#SBATCH --error=/home/user/runs/s-20261207-114604-bb04b2/submissions/0/%A_%a_batch.out
#SBATCH --job-name=s-20261207-114604-bb04b2.0
#SBATCH --mem=205M
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=/home/user/runs/s-20261207-114604-bb04b2/submissions/0/%A_%a_batch.out
#SBATCH --signal=USR2@30
#SBATCH --time=3

# setup
job="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"
task="$job${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
mkdir -p /home/user/runs/s-20261207-114604-bb04b2/"$job" || exit 1
read -r MXFP8_JOB_UPTIME _ < /proc/uptime && export MXFP8_JOB_UPTIME
ln -sfn ../submissions/0/entry.pkl /home/user/runs/s-20261207-114604-bb04b2/"$job/${task}_submitted.pkl" || exit 1
ln /home/user/runs/s-20261207-114604-bb04b2/submissions/0/"${task}_batch.out" /home/user/runs/s-20261207-114604-bb04b2/"$job/${task}_batch_log.out" 2>/dev/null || true

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /home/user/runs/s-20261207-114604-bb04b2/%A/%A_%a_%t_log.out --error /home/user/runs/s-20261207-114604-bb04b2/%A/%A_%a_%t_log.err --export=ALL /usr/bin/env PYTHONPATH=/home/user/runs/s-20261207-114604-bb04b2/submissions/0/entry.zip /home/user/node-python -u -m jobs.cluster.begin /home/user/runs/s-20261207-114604-bb04b2/%A
