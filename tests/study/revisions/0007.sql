BEGIN TRANSACTION;
CREATE TABLE attempt (
	trial TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	failure TEXT, 
	message TEXT, 
	traceback TEXT, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	environment TEXT, 
	log TEXT, 
	fingerprint TEXT, 
	CONSTRAINT pk_attempt PRIMARY KEY (trial, number), 
	CONSTRAINT ck_attempt_state CHECK (state IN ('running', 'complete', 'failed', 'censored')), 
	CONSTRAINT ck_attempt_failure CHECK (failure IN ('oom', 'diverged', 'error', 'lost', 'cancelled')), 
	CONSTRAINT ck_attempt_failed CHECK ((state = 'failed') = (failure IS NOT NULL)), 
	CONSTRAINT ck_attempt_ended_at CHECK ((state = 'running') = (ended_at IS NULL)), 
	CONSTRAINT ck_attempt_number CHECK (number >= 1), 
	CONSTRAINT fk_attempt_trial FOREIGN KEY(trial) REFERENCES trial (id), 
	CONSTRAINT fk_attempt_environment FOREIGN KEY(environment) REFERENCES environment (id), 
	CONSTRAINT fk_attempt_fingerprint FOREIGN KEY(fingerprint) REFERENCES dataset (fingerprint)
);
INSERT INTO "attempt" VALUES('44d16455d7c9e799',1,'complete',NULL,NULL,NULL,'2026-03-01 12:00:02.000000','2026-03-01 12:00:03.000000','924a8664f68676e1',NULL,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857');
INSERT INTO "attempt" VALUES('4d0e471af78914b8',1,'complete',NULL,NULL,NULL,'2026-03-01 12:00:04.000000','2026-03-01 12:00:05.000000','924a8664f68676e1',NULL,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857');
INSERT INTO "attempt" VALUES('7ce3cddc84c5ebf9',1,'failed','diverged','loss is NaN','Trace..','2026-03-01 12:00:06.000000','2026-03-01 12:00:07.000000','924a8664f68676e1',NULL,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857');
INSERT INTO "attempt" VALUES('6a9b67d8e9d2f4bc',1,'failed','lost','worker died',NULL,'2026-03-01 12:00:08.000000','2026-03-01 12:00:09.000000',NULL,NULL,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857');
INSERT INTO "attempt" VALUES('2dbda6ffdf431f2c',1,'running',NULL,NULL,NULL,'2026-03-01 12:00:10.000000',NULL,'924a8664f68676e1',NULL,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857');
CREATE TABLE cell (
	study TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	model TEXT NOT NULL, 
	embeddings TEXT NOT NULL, 
	hidden INTEGER, 
	heads TEXT, 
	dropout FLOAT, 
	weight_decay FLOAT, 
	seed BIGINT NOT NULL, 
	others TEXT NOT NULL, 
	stage TEXT NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT, 
	trial TEXT, 
	CONSTRAINT pk_cell PRIMARY KEY (study, number), 
	CONSTRAINT ck_cell_state CHECK (state IN ('feasible', 'infeasible', 'duplicate', 'unasked')), 
	CONSTRAINT ck_cell_stage CHECK (stage IN ('screen', 'final')), 
	CONSTRAINT ck_cell_trial CHECK ((state IN ('infeasible', 'unasked')) = (trial IS NULL)), 
	CONSTRAINT ck_cell_number CHECK (number >= 0), 
	CONSTRAINT fk_cell_study FOREIGN KEY(study) REFERENCES study (name), 
	CONSTRAINT fk_cell_trial FOREIGN KEY(trial) REFERENCES trial (id)
);
INSERT INTO "cell" VALUES('small',0,'tiny','meantime','none',8,'1',0.2,0.0,0,'{}','final','feasible',NULL,'44d16455d7c9e799');
INSERT INTO "cell" VALUES('small',1,'tiny','meantime','none',8,'1',0.2,0.0,1,'{}','final','feasible',NULL,'4d0e471af78914b8');
INSERT INTO "cell" VALUES('small',2,'tiny','meantime','none',8,'2',0.2,0.0,0,'{}','final','feasible',NULL,'7ce3cddc84c5ebf9');
INSERT INTO "cell" VALUES('small',3,'tiny','meantime','none',8,'2',0.2,0.0,1,'{}','final','feasible',NULL,'2dbda6ffdf431f2c');
INSERT INTO "cell" VALUES('small',4,'tiny','meantime','none',8,'per-embedding',0.2,0.0,0,'{}','final','infeasible','heads: per-embedding needs at least one embedding, got none; give an integer number of heads',NULL);
INSERT INTO "cell" VALUES('small',5,'tiny','meantime','none',8,'per-embedding',0.2,0.0,1,'{}','final','infeasible','heads: per-embedding needs at least one embedding, got none; give an integer number of heads',NULL);
INSERT INTO "cell" VALUES('small',6,'tiny','meantime','Pos',8,'1',0.2,0.0,0,'{}','final','feasible',NULL,'6a9b67d8e9d2f4bc');
INSERT INTO "cell" VALUES('small',7,'tiny','meantime','Pos',8,'1',0.2,0.0,1,'{}','final','feasible',NULL,'59f6d9beea0732a0');
INSERT INTO "cell" VALUES('small',8,'tiny','meantime','Pos',8,'2',0.2,0.0,0,'{}','final','feasible',NULL,'cc85d09adf227138');
INSERT INTO "cell" VALUES('small',9,'tiny','meantime','Pos',8,'2',0.2,0.0,1,'{}','final','feasible',NULL,'2191490941c7e4d9');
INSERT INTO "cell" VALUES('small',10,'tiny','meantime','Pos',8,'per-embedding',0.2,0.0,0,'{}','final','duplicate','the same trial as cell 6 (heads=1)','6a9b67d8e9d2f4bc');
INSERT INTO "cell" VALUES('small',11,'tiny','meantime','Pos',8,'per-embedding',0.2,0.0,1,'{}','final','duplicate','the same trial as cell 7 (heads=1)','59f6d9beea0732a0');
INSERT INTO "cell" VALUES('small',12,'tiny','meantime','Pos+Log',8,'1',0.2,0.0,0,'{}','final','infeasible','each embedding owns one head: 2 embeddings need at least 2 heads, got heads=1; use heads >= 2 or per-embedding',NULL);
INSERT INTO "cell" VALUES('small',13,'tiny','meantime','Pos+Log',8,'1',0.2,0.0,1,'{}','final','infeasible','each embedding owns one head: 2 embeddings need at least 2 heads, got heads=1; use heads >= 2 or per-embedding',NULL);
INSERT INTO "cell" VALUES('small',14,'tiny','meantime','Pos+Log',8,'2',0.2,0.0,0,'{}','final','feasible',NULL,'bf1b36b8901e4732');
INSERT INTO "cell" VALUES('small',15,'tiny','meantime','Pos+Log',8,'2',0.2,0.0,1,'{}','final','feasible',NULL,'3eea0e251c8d23d3');
INSERT INTO "cell" VALUES('small',16,'tiny','meantime','Pos+Log',8,'per-embedding',0.2,0.0,0,'{}','final','duplicate','the same trial as cell 14 (heads=2)','bf1b36b8901e4732');
INSERT INTO "cell" VALUES('small',17,'tiny','meantime','Pos+Log',8,'per-embedding',0.2,0.0,1,'{}','final','duplicate','the same trial as cell 15 (heads=2)','3eea0e251c8d23d3');
CREATE TABLE dataset (
	fingerprint TEXT NOT NULL, 
	name TEXT NOT NULL, 
	n_users INTEGER NOT NULL, 
	n_items INTEGER NOT NULL, 
	n_interactions BIGINT NOT NULL, 
	n_days INTEGER NOT NULL, 
	preparation TEXT NOT NULL, 
	CONSTRAINT pk_dataset PRIMARY KEY (fingerprint), 
	CONSTRAINT ck_dataset_n_users CHECK (n_users >= 0), 
	CONSTRAINT ck_dataset_n_items CHECK (n_items >= 0), 
	CONSTRAINT ck_dataset_n_interactions CHECK (n_interactions >= 0), 
	CONSTRAINT ck_dataset_n_days CHECK (n_days >= 0)
);
INSERT INTO "dataset" VALUES('6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857','tiny',20,10,156,158,'{"name":"tiny","core":"once","min_interactions":5,"synthetic":{"recipe":"planted-order","users":20,"items":12,"events":8,"seed":0}}');
CREATE TABLE environment (
	id TEXT NOT NULL, 
	"commit" TEXT, 
	dirty BOOLEAN, 
	python TEXT NOT NULL, 
	torch TEXT, 
	ray TEXT, 
	packages TEXT NOT NULL, 
	platform TEXT NOT NULL, 
	node TEXT, 
	cpu TEXT NOT NULL, 
	gpus TEXT NOT NULL, 
	device TEXT NOT NULL, 
	threads INTEGER NOT NULL, 
	CONSTRAINT pk_environment PRIMARY KEY (id), 
	CONSTRAINT ck_environment_threads CHECK (threads >= 0)
);
INSERT INTO "environment" VALUES('924a8664f68676e1','0000000000000000000000000000000000000000',0,'3.11.7','2.13.0','2.60.0','{"torch": "2.13.0", "ray": "2.60.0"}','Linux','a-machine','a processor','','cpu',1);
CREATE TABLE epoch_metric (
	trial TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	split TEXT NOT NULL, 
	protocol TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	value FLOAT, 
	CONSTRAINT pk_epoch_metric PRIMARY KEY (trial, attempt, epoch, split, protocol, metric), 
	CONSTRAINT fk_epoch_metric_trial FOREIGN KEY(trial, attempt) REFERENCES attempt (trial, number), 
	CONSTRAINT ck_epoch_metric_split CHECK (split IN ('train', 'validation', 'test')), 
	CONSTRAINT ck_epoch_metric_protocol CHECK (protocol IN ('none', 'popular-100', 'uniform-100', 'full')), 
	CONSTRAINT ck_epoch_metric_epoch CHECK (epoch >= 1)
)
 WITHOUT ROWID

;
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,1,'train','none','loss',1.5);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,1,'train','none','seconds',0.5);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,1,'validation','popular-100','ndcg@10',0.2);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','full','ndcg@10',0.2);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','full','ndcg@5',1.80000000000000021094e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','full','recall@10',3.00000000000000044408e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','popular-100','ndcg@10',0.2);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','popular-100','ndcg@5',1.80000000000000021094e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'test','popular-100','recall@10',3.00000000000000044408e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'train','none','loss',1.5);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'train','none','seconds',0.5);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','full','ndcg@10',0.4);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','full','ndcg@5',3.60000000000000042188e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','full','recall@10',6.00000000000000088817e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','popular-100','ndcg@10',0.4);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','popular-100','ndcg@5',3.60000000000000042188e-01);
INSERT INTO "epoch_metric" VALUES('44d16455d7c9e799',1,2,'validation','popular-100','recall@10',6.00000000000000088817e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,1,'train','none','loss',1.5);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,1,'train','none','seconds',0.5);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,1,'validation','popular-100','ndcg@10',0.1);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','full','ndcg@10',0.1);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','full','ndcg@5',9.00000000000000105471e-02);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','full','recall@10',1.50000000000000022204e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','popular-100','ndcg@10',0.1);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','popular-100','ndcg@5',9.00000000000000105471e-02);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'test','popular-100','recall@10',1.50000000000000022204e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'train','none','loss',1.5);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'train','none','seconds',0.5);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','full','ndcg@10',0.2);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','full','ndcg@5',1.80000000000000021094e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','full','recall@10',3.00000000000000044408e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','popular-100','ndcg@10',0.2);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','popular-100','ndcg@5',1.80000000000000021094e-01);
INSERT INTO "epoch_metric" VALUES('4d0e471af78914b8',1,2,'validation','popular-100','recall@10',3.00000000000000044408e-01);
INSERT INTO "epoch_metric" VALUES('7ce3cddc84c5ebf9',1,1,'train','none','loss',NULL);
INSERT INTO "epoch_metric" VALUES('7ce3cddc84c5ebf9',1,1,'train','none','seconds',0.5);
INSERT INTO "epoch_metric" VALUES('7ce3cddc84c5ebf9',1,1,'validation','popular-100','ndcg@10',0.25);
CREATE TABLE meantime_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT meantime_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "meantime_version" VALUES('0007');
CREATE TABLE rank (
	trial TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	split TEXT NOT NULL, 
	protocol TEXT NOT NULL, 
	n_users INTEGER NOT NULL, 
	greater BLOB NOT NULL, 
	equal BLOB NOT NULL, 
	CONSTRAINT pk_rank PRIMARY KEY (trial, attempt, split, protocol), 
	CONSTRAINT fk_rank_trial FOREIGN KEY(trial, attempt) REFERENCES attempt (trial, number), 
	CONSTRAINT ck_rank_split CHECK (split IN ('train', 'validation', 'test')), 
	CONSTRAINT ck_rank_protocol CHECK (protocol IN ('none', 'popular-100', 'uniform-100', 'full')), 
	CONSTRAINT ck_rank_n_users CHECK (n_users >= 0)
);
INSERT INTO "rank" VALUES('44d16455d7c9e799',1,'validation','popular-100',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('44d16455d7c9e799',1,'validation','full',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('44d16455d7c9e799',1,'test','popular-100',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('44d16455d7c9e799',1,'test','full',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('4d0e471af78914b8',1,'validation','popular-100',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('4d0e471af78914b8',1,'validation','full',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('4d0e471af78914b8',1,'test','popular-100',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
INSERT INTO "rank" VALUES('4d0e471af78914b8',1,'test','full',3,X'789C6360606060046226200600001C0004',X'789C636760606087620000B40016');
CREATE TABLE result (
	trial TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	fingerprint TEXT NOT NULL, 
	best_epoch INTEGER NOT NULL, 
	epochs_trained INTEGER NOT NULL, 
	stopped_by TEXT NOT NULL, 
	n_parameters BIGINT NOT NULL, 
	seconds FLOAT NOT NULL, 
	"validation_ndcg@5" FLOAT, 
	"validation_ndcg@10" FLOAT, 
	"validation_recall@5" FLOAT, 
	"validation_recall@10" FLOAT, 
	validation_mrr FLOAT, 
	"test_ndcg@5" FLOAT, 
	"test_ndcg@10" FLOAT, 
	"test_recall@5" FLOAT, 
	"test_recall@10" FLOAT, 
	test_mrr FLOAT, 
	"validation_full_ndcg@5" FLOAT, 
	"validation_full_ndcg@10" FLOAT, 
	"validation_full_recall@5" FLOAT, 
	"validation_full_recall@10" FLOAT, 
	validation_full_mrr FLOAT, 
	"test_full_ndcg@5" FLOAT, 
	"test_full_ndcg@10" FLOAT, 
	"test_full_recall@5" FLOAT, 
	"test_full_recall@10" FLOAT, 
	test_full_mrr FLOAT, 
	CONSTRAINT pk_result PRIMARY KEY (trial, attempt), 
	CONSTRAINT fk_result_trial FOREIGN KEY(trial, attempt) REFERENCES attempt (trial, number), 
	CONSTRAINT ck_result_stopped_by CHECK (stopped_by IN ('patience', 'epochs')), 
	CONSTRAINT ck_result_best_epoch CHECK (best_epoch BETWEEN 1 AND epochs_trained), 
	CONSTRAINT ck_result_seconds CHECK (seconds >= 0), 
	CONSTRAINT ck_result_n_parameters CHECK (n_parameters >= 0), 
	CONSTRAINT fk_result_fingerprint FOREIGN KEY(fingerprint) REFERENCES dataset (fingerprint)
);
INSERT INTO "result" VALUES('44d16455d7c9e799',1,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857',2,3,'patience',1234,2.5,3.60000000000000042188e-01,0.4,NULL,6.00000000000000088817e-01,NULL,1.80000000000000021094e-01,0.2,NULL,3.00000000000000044408e-01,NULL,3.60000000000000042188e-01,0.4,NULL,6.00000000000000088817e-01,NULL,1.80000000000000021094e-01,0.2,NULL,3.00000000000000044408e-01,NULL);
INSERT INTO "result" VALUES('4d0e471af78914b8',1,'6aedd81eaab8abff6d3100faf2ab808f3c1139caeb62ecf8c662602ec9211857',2,3,'patience',1234,2.5,1.80000000000000021094e-01,0.2,NULL,3.00000000000000044408e-01,NULL,9.00000000000000105471e-02,0.1,NULL,1.50000000000000022204e-01,NULL,1.80000000000000021094e-01,0.2,NULL,3.00000000000000044408e-01,NULL,9.00000000000000105471e-02,0.1,NULL,1.50000000000000022204e-01,NULL);
CREATE TABLE study (
	name TEXT NOT NULL, 
	question TEXT NOT NULL, 
	definition TEXT NOT NULL, 
	declared INTEGER NOT NULL, 
	planned_at DATETIME NOT NULL, 
	CONSTRAINT pk_study PRIMARY KEY (name), 
	CONSTRAINT ck_study_declared CHECK (declared >= 0)
);
INSERT INTO "study" VALUES('small','Does order matter?','{"name":"small","question":"Does order matter?","datasets":["tiny"],"models":{"meantime":{"embeddings":null,"grid":{}}},"embeddings":[[],["pos"],["pos","log"]],"grid":{"hidden":[8],"heads":[1,2,"per-embedding"]},"seeds":[0,1],"search":"grid","stop_early":null,"confirm":null,"screen":{},"resources":{"cpus":1,"gpus":0.0},"retries":{"oom":1,"diverged":0,"error":0,"lost":3},"storage":null}',18,'2026-03-01 12:00:01.000000');
CREATE TABLE trial (
	id TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	core TEXT NOT NULL, 
	min_interactions INTEGER NOT NULL, 
	min_rating FLOAT, 
	synthetic TEXT, 
	model TEXT NOT NULL, 
	embeddings TEXT NOT NULL, 
	day BOOLEAN NOT NULL, 
	pos BOOLEAN NOT NULL, 
	con BOOLEAN NOT NULL, 
	sin BOOLEAN NOT NULL, 
	exp BOOLEAN NOT NULL, 
	log BOOLEAN NOT NULL, 
	hidden INTEGER, 
	heads INTEGER, 
	layers INTEGER, 
	max_len INTEGER, 
	dropout FLOAT, 
	relative_dropout TEXT, 
	tau FLOAT, 
	frequency_base FLOAT, 
	loss TEXT, 
	negatives INTEGER, 
	max_interval INTEGER, 
	variant INTEGER, 
	history INTEGER, 
	neighbours INTEGER, 
	decay FLOAT, 
	train_window INTEGER, 
	mask_probability FLOAT, 
	batch INTEGER, 
	lr FLOAT, 
	weight_decay FLOAT, 
	epochs INTEGER, 
	patience INTEGER, 
	precision TEXT, 
	target_time TEXT, 
	protocol TEXT, 
	repeats TEXT, 
	seed BIGINT NOT NULL, 
	effective TEXT NOT NULL, 
	state TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	result_attempt INTEGER, 
	CONSTRAINT pk_trial PRIMARY KEY (id), 
	CONSTRAINT ck_trial_id CHECK (length(id) = 16), 
	CONSTRAINT ck_trial_state CHECK (state IN ('pending', 'running', 'complete', 'failed', 'censored')), 
	CONSTRAINT ck_trial_result_attempt CHECK ((state = 'complete') = (result_attempt IS NOT NULL)), 
	CONSTRAINT ck_trial_attempts CHECK (attempts >= 0), 
	CONSTRAINT ck_trial_seed CHECK (seed >= 0)
);
INSERT INTO "trial" VALUES('44d16455d7c9e799','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','none',0,0,0,0,0,0,8,1,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',0,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": [], "heads": 1, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 0, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','complete',1,1);
INSERT INTO "trial" VALUES('4d0e471af78914b8','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','none',0,0,0,0,0,0,8,1,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',1,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": [], "heads": 1, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 1, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','complete',1,1);
INSERT INTO "trial" VALUES('7ce3cddc84c5ebf9','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','none',0,0,0,0,0,0,8,2,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',0,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": [], "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 0, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','failed',1,NULL);
INSERT INTO "trial" VALUES('2dbda6ffdf431f2c','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','none',0,0,0,0,0,0,8,2,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',1,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": [], "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 1, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','running',1,NULL);
INSERT INTO "trial" VALUES('6a9b67d8e9d2f4bc','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos',0,1,0,0,0,0,8,1,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',0,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": ["pos"], "heads": 1, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 0, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',1,NULL);
INSERT INTO "trial" VALUES('59f6d9beea0732a0','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos',0,1,0,0,0,0,8,1,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',1,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": ["pos"], "heads": 1, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 1, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',0,NULL);
INSERT INTO "trial" VALUES('cc85d09adf227138','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos',0,1,0,0,0,0,8,2,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',0,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": ["pos"], "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 0, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',0,NULL);
INSERT INTO "trial" VALUES('2191490941c7e4d9','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos',0,1,0,0,0,0,8,2,2,50,0.2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32',NULL,'popular-100','excluded',1,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded"}, "model": {"dropout": 0.2, "embeddings": ["pos"], "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime"}, "numerics": 3, "scheme": 1, "seed": 1, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',0,NULL);
INSERT INTO "trial" VALUES('bf1b36b8901e4732','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos+Log',0,1,0,0,0,1,8,2,2,50,0.2,'entrywise',1.0,10000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32','actual','popular-100','excluded',0,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded", "target_time": "actual"}, "model": {"dropout": 0.2, "embeddings": ["pos", "log"], "frequency_base": 10000.0, "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime", "relative_dropout": "entrywise", "tau": 1.0}, "numerics": 3, "scheme": 1, "seed": 0, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',0,NULL);
INSERT INTO "trial" VALUES('3eea0e251c8d23d3','tiny','once',5,NULL,'{"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}','meantime','Pos+Log',0,1,0,0,0,1,8,2,2,50,0.2,'entrywise',1.0,10000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,100,0.2,256,0.001,0.0,200,20,'float32','actual','popular-100','excluded',1,'{"dataset": {"core": "once", "min_interactions": 5, "name": "tiny", "synthetic": {"events": 8, "items": 12, "recipe": "planted-order", "seed": 0, "users": 20}}, "evaluation": {"repeats": "excluded", "target_time": "actual"}, "model": {"dropout": 0.2, "embeddings": ["pos", "log"], "frequency_base": 10000.0, "heads": 2, "hidden": 8, "layers": 2, "max_len": 50, "name": "meantime", "relative_dropout": "entrywise", "tau": 1.0}, "numerics": 3, "scheme": 1, "seed": 1, "training": {"batch": 256, "epochs": 200, "lr": 0.001, "mask_probability": 0.2, "patience": 20, "precision": "float32", "train_window": 100, "weight_decay": 0.0}}','pending',0,NULL);
CREATE INDEX ix_dataset_name ON dataset (name);
CREATE INDEX ix_trial_state ON trial (state);
CREATE INDEX ix_cell_trial ON cell (trial);
CREATE UNIQUE INDEX ix_cell_one_feasible_per_trial ON cell (study, trial) WHERE state = 'feasible';
CREATE INDEX ix_attempt_state ON attempt (state);
CREATE VIEW results AS SELECT trial.id AS trial, cell.study, cell.stage, trial.dataset, trial.core, trial.min_interactions, trial.min_rating, trial.synthetic, trial.model, trial.embeddings, trial.day, trial.pos, trial.con, trial.sin, trial.exp, trial.log, trial.hidden, trial.heads, trial.layers, trial.max_len, trial.dropout, trial.relative_dropout, trial.tau, trial.frequency_base, trial.loss, trial.negatives, trial.max_interval, trial.variant, trial.history, trial.neighbours, trial.decay, trial.train_window, trial.mask_probability, trial.batch, trial.lr, trial.weight_decay, trial.epochs, trial.patience, trial.precision, trial.target_time, trial.protocol, trial.repeats, trial.seed, trial.state, CASE WHEN (trial.state = 'failed') THEN attempt.failure END AS failure, result.best_epoch, result.epochs_trained, result.stopped_by, result."validation_ndcg@5", result."validation_ndcg@10", result."validation_recall@5", result."validation_recall@10", result.validation_mrr, result."test_ndcg@5", result."test_ndcg@10", result."test_recall@5", result."test_recall@10", result.test_mrr, result."validation_full_ndcg@5", result."validation_full_ndcg@10", result."validation_full_recall@5", result."validation_full_recall@10", result.validation_full_mrr, result."test_full_ndcg@5", result."test_full_ndcg@10", result."test_full_recall@5", result."test_full_recall@10", result.test_full_mrr, result.n_parameters, result.seconds, trial.attempts, environment.device, environment."commit", coalesce(result.fingerprint, attempt.fingerprint) AS fingerprint, CASE WHEN (trial.state != 'pending') THEN attempt.ended_at END AS finished_at 
FROM trial LEFT OUTER JOIN attempt ON attempt.trial = trial.id AND attempt.number = coalesce(trial.result_attempt, trial.attempts) LEFT OUTER JOIN environment ON environment.id = attempt.environment LEFT OUTER JOIN result ON result.trial = trial.id AND result.attempt = trial.result_attempt LEFT OUTER JOIN cell ON cell.trial = trial.id AND cell.state = 'feasible';
CREATE VIEW curves AS SELECT trial.id AS trial, epoch_seconds.attempt, trial.dataset, trial.core, trial.min_interactions, trial.min_rating, trial.synthetic, trial.model, trial.embeddings, trial.day, trial.pos, trial.con, trial.sin, trial.exp, trial.log, trial.hidden, trial.heads, trial.layers, trial.max_len, trial.dropout, trial.relative_dropout, trial.tau, trial.frequency_base, trial.loss, trial.negatives, trial.max_interval, trial.variant, trial.history, trial.neighbours, trial.decay, trial.train_window, trial.mask_probability, trial.batch, trial.lr, trial.weight_decay, trial.epochs, trial.patience, trial.precision, trial.target_time, trial.protocol, trial.repeats, trial.seed, trial.state, epoch_seconds.epoch, train_loss.value AS train_loss, validation_ndcg_at_5.value AS "validation_ndcg@5", validation_ndcg_at_10.value AS "validation_ndcg@10", validation_recall_at_5.value AS "validation_recall@5", validation_recall_at_10.value AS "validation_recall@10", validation_mrr.value AS validation_mrr, epoch_seconds.value AS seconds 
FROM trial JOIN epoch_metric AS epoch_seconds ON epoch_seconds.trial = trial.id AND epoch_seconds.attempt = coalesce(trial.result_attempt, trial.attempts) AND epoch_seconds.split = 'train' AND epoch_seconds.protocol = 'none' AND epoch_seconds.metric = 'seconds' LEFT OUTER JOIN epoch_metric AS train_loss ON train_loss.trial = epoch_seconds.trial AND train_loss.attempt = epoch_seconds.attempt AND train_loss.epoch = epoch_seconds.epoch AND train_loss.split = 'train' AND train_loss.protocol = 'none' AND train_loss.metric = 'loss' LEFT OUTER JOIN epoch_metric AS validation_ndcg_at_5 ON validation_ndcg_at_5.trial = epoch_seconds.trial AND validation_ndcg_at_5.attempt = epoch_seconds.attempt AND validation_ndcg_at_5.epoch = epoch_seconds.epoch AND validation_ndcg_at_5.split = 'validation' AND validation_ndcg_at_5.protocol = trial.protocol AND validation_ndcg_at_5.metric = 'ndcg@5' LEFT OUTER JOIN epoch_metric AS validation_ndcg_at_10 ON validation_ndcg_at_10.trial = epoch_seconds.trial AND validation_ndcg_at_10.attempt = epoch_seconds.attempt AND validation_ndcg_at_10.epoch = epoch_seconds.epoch AND validation_ndcg_at_10.split = 'validation' AND validation_ndcg_at_10.protocol = trial.protocol AND validation_ndcg_at_10.metric = 'ndcg@10' LEFT OUTER JOIN epoch_metric AS validation_recall_at_5 ON validation_recall_at_5.trial = epoch_seconds.trial AND validation_recall_at_5.attempt = epoch_seconds.attempt AND validation_recall_at_5.epoch = epoch_seconds.epoch AND validation_recall_at_5.split = 'validation' AND validation_recall_at_5.protocol = trial.protocol AND validation_recall_at_5.metric = 'recall@5' LEFT OUTER JOIN epoch_metric AS validation_recall_at_10 ON validation_recall_at_10.trial = epoch_seconds.trial AND validation_recall_at_10.attempt = epoch_seconds.attempt AND validation_recall_at_10.epoch = epoch_seconds.epoch AND validation_recall_at_10.split = 'validation' AND validation_recall_at_10.protocol = trial.protocol AND validation_recall_at_10.metric = 'recall@10' LEFT OUTER JOIN epoch_metric AS validation_mrr ON validation_mrr.trial = epoch_seconds.trial AND validation_mrr.attempt = epoch_seconds.attempt AND validation_mrr.epoch = epoch_seconds.epoch AND validation_mrr.split = 'validation' AND validation_mrr.protocol = trial.protocol AND validation_mrr.metric = 'mrr';
COMMIT;
